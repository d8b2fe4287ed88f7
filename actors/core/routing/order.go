package routing

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"parley/actors/core/failure"
)

// Found is a model of a project.
type Found struct {
	Category string    // "" = llm
	Dynamic  *Settings // nil = it is called at a provider
}

// Env is what an order depends on beside the settings.
type Env struct {
	// Find returns a model that can be called, or that chooses.
	Find    func(key string) (Found, bool)
	Signals *Signals
	Draw    func() float64 // in [0,1)
	// Cost is what the request would cost with a model, in nano-dollars, by estimate; false = it has no price.
	Cost func(key string) (nano int64, known bool)
	// Pace is how fast a model was lately; false = it is not known.
	Pace func(key string) (latency time.Duration, known bool)
	// Decide returns the word of a decider, "" = it said none.
	Decide func(decider *Decider) string
}

// Order is the models that a request to a dynamic model is tried with, none of them dynamic, each once. It is empty when none of
// them can be called.
func Order(root *Settings, env *Env) []string {
	o := order{env: env}
	var tried []string
	for _, key := range o.expand(root, 1, true) {
		if !slices.Contains(tried, key) && len(tried) < MaxTried {
			tried = append(tried, key)
		}
	}
	return tried
}

type order struct{ env *Env }

// of is what stands in the place of a model. leads says that it goes first.
func (o *order) of(key string, depth int, leads bool) []string {
	found, known := o.env.Find(key)
	switch {
	case !known:
		return nil
	case found.Dynamic == nil:
		return []string{key}
	case depth >= MaxNesting: // it was changed since it was checked
		return nil
	}
	return o.expand(found.Dynamic, depth+1, leads)
}

func (o *order) expand(s *Settings, depth int, leads bool) []string {
	var tried []string
	add := func(key string) {
		if key != "" {
			tried = append(tried, o.of(key, depth, leads && len(tried) == 0)...)
		}
	}
	switch s.Strategy {
	case RuleBased, ModelBased:
		if add(o.choice(s, leads)); len(tried) == 0 {
			add(s.DefaultModelKey)
		}
	case Cheapest, Fastest:
		tried = o.sorted(s, depth)
		add(s.DefaultModelKey)
	default:
		for _, target := range o.listed(s) {
			add(target)
		}
		add(s.DefaultModelKey)
	}
	add(s.FallbackModelKey)
	return tried
}

// choice is the model that a rule or a decider chose, "" = none did.
func (o *order) choice(s *Settings, leads bool) string {
	if s.Strategy == ModelBased {
		if !leads {
			return ""
		}
		word := plain(o.env.Decide(s.Decider))
		for _, label := range s.Decider.Labels {
			if plain(label.Label) == word {
				return label.TargetModelKey
			}
		}
		return ""
	}
	signals := *o.env.Signals
	if cost, known := o.env.Cost(s.DefaultModelKey); known {
		signals.EstimatedCostUSD = float64(cost) / 1e9
	}
	for i := range s.Rules {
		if s.Rules[i].matches(&signals) {
			return s.Rules[i].TargetModelKey
		}
	}
	return ""
}

// listed is the targets as they are written, or in an order that their weights say.
func (o *order) listed(s *Settings) []string {
	type drawn struct {
		key string
		at  float64
	}
	targets := make([]drawn, len(s.Targets))
	for i := range s.Targets {
		targets[i] = drawn{key: s.Targets[i].ModelKey, at: 0}
		if weight := s.Targets[i].weight(); s.Strategy == Weighted && weight > 0 {
			// Whoever has the shortest exponential wait goes first: as often as its weight says (Efraimidis and Spirakis).
			targets[i].at = -math.Log1p(-o.env.Draw()) / weight
		} else if s.Strategy == Weighted {
			targets[i].at = math.Inf(1)
		}
	}
	slices.SortStableFunc(targets, func(a, b drawn) int { return cmp.Compare(a.at, b.at) })
	keys := make([]string, len(targets))
	for i := range targets {
		keys[i] = targets[i].key
	}
	return keys
}

// sorted is the targets, or what stands in their places, by the cost or pace of the first one there.
func (o *order) sorted(s *Settings, depth int) (keys []string) {
	type measured struct {
		keys []string
		by   int64
	}
	var targets []measured
	for i := range s.Targets {
		in := o.of(s.Targets[i].ModelKey, depth, false)
		if len(in) == 0 {
			continue
		}
		by := int64(math.MaxInt64)
		if s.Strategy == Cheapest {
			if cost, known := o.env.Cost(in[0]); known {
				by = cost
			}
		} else if pace, known := o.env.Pace(in[0]); known {
			by = int64(pace)
		} else {
			by = -1
		}
		targets = append(targets, measured{in, by})
	}
	slices.SortStableFunc(targets, func(a, b measured) int { return cmp.Compare(a.by, b.by) })
	for _, target := range targets {
		keys = append(keys, target.keys...)
	}
	return keys
}

// Check says what is wrong with what a dynamic model names: models that do not exist, or of another category, nesting that is
// too deep, cycles. find also finds the model itself, with these settings. Of several that are checked with one Checker, each model is
// looked at once.
func (c *Checker) Check(key, category string, s *Settings) *failure.Failure {
	fields, keys := s.named()
	for i, target := range keys {
		if _, refused := c.Model(fields[i], target, category); refused != nil {
			return refused
		}
	}
	if s.Decider != nil {
		const at = top + ".decider.modelKey"
		found, refused := c.Model(at, s.Decider.ModelKey, "llm")
		switch {
		case refused != nil:
			return refused
		case found.Dynamic != nil:
			return invalid(failure.DeciderDynamic).In(at).Param("model", s.Decider.ModelKey)
		}
	}
	return c.CheckNesting(key)
}

// Model finds the model that a field names, or says what is wrong with it: there is none, or it is of another category.
func (c *Checker) Model(field, key, category string) (Found, *failure.Failure) {
	found, known := c.find(key)
	if !known {
		return found, invalid(failure.RoutedModelUnknown).In(field).Param("model", key)
	}
	if is := cmp.Or(found.Category, "llm"); is != category {
		return found, invalid(failure.RoutedModelOther).In(field).Param("model", key).Param("category", is).Param("wanted", category)
	}
	return found, nil
}

// Checker finds out how deep dynamic models of a project are nested.
type Checker struct {
	find  func(key string) (Found, bool)
	depth map[string]int // of those that were looked at
	path  []string
}

// NewChecker returns a checker of a project's models.
func NewChecker(find func(key string) (Found, bool)) *Checker {
	return &Checker{find: find, depth: map[string]int{}}
}

// CheckNesting refuses a dynamic model in which others are nested too deep, or in a cycle.
func (c *Checker) CheckNesting(key string) *failure.Failure {
	depth, cycle := c.look(key)
	if cycle != "" {
		return invalid(failure.RoutingCycle).Param("models", cycle)
	}
	if depth > MaxNesting {
		return invalid(failure.RoutingTooDeep).Param("model", key).Param("most", MaxNesting)
	}
	return nil
}

// look is how many dynamic models are on the longest way from one, itself included.
func (c *Checker) look(key string) (depth int, cycle string) {
	if seen, known := c.depth[key]; known {
		return seen, ""
	}
	found, _ := c.find(key)
	if found.Dynamic == nil {
		return 0, ""
	}
	if at := slices.Index(c.path, key); at >= 0 {
		return 0, strings.Join(append(slices.Clone(c.path[at:]), key), ", ")
	}
	c.path = append(c.path, key)
	defer func() { c.path = c.path[:len(c.path)-1] }()
	_, keys := found.Dynamic.named()
	for _, target := range keys {
		below, round := c.look(target)
		if round != "" {
			return 0, round
		}
		depth = max(depth, below)
	}
	c.depth[key] = depth + 1
	return depth + 1, ""
}
