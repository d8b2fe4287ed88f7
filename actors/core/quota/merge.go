package quota

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"parley/proto/allowancepb"
)

// Call is what a call is judged by before it is made.
type Call struct {
	TenantID, ProjectID, UserID, TokenID string
	Model, Provider                      string // keys of records
	Domain                               string
	// InputTokens and OutputTokens are what it will take, by estimate; of output at most. 0 = not known, or nothing.
	InputTokens, OutputTokens int64
	// Cap is what Door.Enter says of a call of a language model that names no cap of its output itself: that of the policies, 0 = none.
	Cap int64
	// Files is how many files it brings, Bytes how large they are together, Largest the largest of them; of one that still comes, how much
	// of it has come.
	Files, Bytes, Largest int64
	// Sessions is how many new ones it reports.
	Sessions int64
	// Want is what it may cost at most, in nano-dollars, Need what it must have to be of any use.
	Want, Need int64
	// Free says that it costs nothing and takes no tokens: budgets and rates of tokens do not refuse it.
	Free bool
	// Part says that it is a part of a call that rates of requests count by themselves.
	Part bool
	// Inside says that it is made for a call that is on its way itself: it takes no place of its own among those that may be at once.
	Inside bool
	// Patient says that it waits for a place among those, as it does for money, instead of being refused at once.
	Patient bool
}

// fits says whether a policy bounds a call.
func (p *Policy) fits(c *Call) bool {
	if p.GetProjectId() != "" && p.GetProjectId() != c.ProjectID || p.GetDomain() != Global && p.GetDomain() != c.Domain {
		return false
	}
	switch p.GetScope() {
	case Tenant:
		return true
	case User:
		return p.GetScopeId() == c.UserID
	case Token:
		return p.GetScopeId() == c.TokenID
	case Resource:
		return p.GetScopeId() == c.Model
	case Provider:
		return p.GetScopeId() == c.Provider
	}
	return false
}

// Force is what is in force for a call.
type Force struct {
	PerRequest map[string]int64
	Caps       []*allowancepb.Cap
	// Alerts are of the budget that is in force.
	Alerts []float64
}

// InForce merges the policies, in the order of Read, that fit a call; nil = none does.
func InForce(policies []*Policy, call *Call) *Force {
	var force *Force
	for _, p := range policies {
		if !p.fits(call) {
			continue
		}
		if force == nil {
			force = &Force{PerRequest: map[string]int64{}}
		}
		force.add(p)
	}
	if force != nil { // those that refuse come in the order of the checks: requests, tokens, money
		slices.SortStableFunc(force.Caps, func(a, b *allowancepb.Cap) int { return rank(a) - rank(b) })
	}
	force.alert()
	return force
}

// alert has the limits of money that are in force told of at the thresholds that are, unless their own policies say others.
func (f *Force) alert() {
	for _, unit := range []allowancepb.Unit{allowancepb.Unit_DAY, allowancepb.Unit_MONTH} {
		if limit := f.Cap(allowancepb.Measure_COST, unit); limit != nil && len(limit.GetAlerts()) == 0 {
			limit.Alerts = f.Alerts
		}
	}
}

func rank(c *allowancepb.Cap) int {
	if c.GetUnit() == allowancepb.Unit_MOMENT {
		return -1 // it bounds the request itself
	}
	order := map[allowancepb.Measure]int{
		allowancepb.Measure_REQUESTS: 0, allowancepb.Measure_FILES: 1, allowancepb.Measure_STORAGE: 2, allowancepb.Measure_TOKENS: 3, allowancepb.Measure_COST: 4, allowancepb.Measure_SESSIONS: 5,
	}
	return order[c.GetMeasure()]*10 + int(c.GetUnit())
}

// Concern leaves those limits out that do not concern a call: of files and sessions one that brings none, and of money and tokens one
// that takes none, so that a spent budget does not refuse what costs nothing.
func (f *Force) Concern(call *Call) {
	f.Caps = slices.DeleteFunc(f.Caps, func(c *allowancepb.Cap) bool {
		switch c.GetMeasure() {
		case allowancepb.Measure_REQUESTS:
			return call.Part || call.Inside && c.GetUnit() == allowancepb.Unit_MOMENT
		case allowancepb.Measure_FILES, allowancepb.Measure_STORAGE:
			return call.Domain != File
		case allowancepb.Measure_SESSIONS:
			return call.Sessions == 0
		case allowancepb.Measure_COST:
			return call.Free || call.Domain == Tracing
		case allowancepb.Measure_TOKENS:
			return call.Free
		case allowancepb.Measure_NOTHING:
		}
		return false
	})
}

// add lets a policy say its part.
func (f *Force) add(p *Policy) {
	for name, most := range p.Said.PerRequest {
		f.PerRequest[name] = most
	}
	if p.Said.Budget != nil && p.Said.Budget.Alerts != nil {
		f.Alerts = p.Said.Budget.Alerts
	}
	for _, own := range p.caps {
		for _, before := range f.Caps {
			if before.GetMeasure() == own.GetMeasure() && before.GetUnit() == own.GetUnit() {
				before.Counts = true
			}
		}
		added := proto.CloneOf(own)
		added.Counts = own.GetMost() < 0
		f.Caps = append(f.Caps, added)
	}
}

// Cap is the limit that is in force for a measure and a window, nil where no policy says one.
func (f *Force) Cap(measure allowancepb.Measure, unit allowancepb.Unit) *allowancepb.Cap {
	if f == nil {
		return nil
	}
	for i := len(f.Caps) - 1; i >= 0; i-- {
		if c := f.Caps[i]; c.GetMeasure() == measure && c.GetUnit() == unit {
			return c // the last one that says something
		}
	}
	return nil
}
