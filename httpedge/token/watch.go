package token

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"parley/actors/core/access"
	"parley/actors/core/collection"
	"parley/actors/core/failure"
	"parley/actors/core/permission"
	"parley/actors/machine"
	"parley/httpedge/endpoint"
	"parley/proto/failurepb"
)

var _ endpoint.Watcher = (*Authenticator)(nil)

// Watch returns the check whether the bearer of a token may still use a route of the Client API. Requests with one token and the
// same need share it for a minute.
func (a *Authenticator) Watch(caller endpoint.Caller, route *endpoint.Route) func() *machine.Failure {
	service, level := needOf(route)
	return a.watch(caller, need{service: service, level: level, path: route.Path, highest: route.IsEnterprise()})
}

// need is what a request asked of its token when it was accepted.
type need struct {
	service access.Service
	level   access.Level
	path    string // that the licence must have; "" = whatever it has
	highest bool   // the licence must have the areas of the highest tiers
	all     bool   // the whole project was within reach
	only401 bool   // see Always401
}

// standing is the current verdict on a token and a need. It keeps only what it takes to see that nothing has changed: there may be
// a stream for each of very many tokens.
type standing struct {
	tokens *Authenticator
	key    digest
	need   need
	basis  atomic.Pointer[basis] // as it was found last
	ask    func() *machine.Failure
}

// standings are all verdicts on the token of one cache entry.
type standings struct {
	sync.Mutex
	all []*standing // one for each need that routes have
}

func (a *Authenticator) watch(caller endpoint.Caller, need need) func() *machine.Failure {
	var key digest
	copy(key[:], caller.Grant.Token.GetHash())
	need.all = caller.Trusted
	found, refused := a.meeting(&key, &need, time.Now())
	if refused != nil { // since the caller was let in
		return func() *machine.Failure { return refused }
	}
	shared := &found.standings
	shared.Lock()
	defer shared.Unlock()
	for _, s := range shared.all {
		if s.need == need {
			return s.ask
		}
	}
	s := &standing{tokens: a, key: key, need: need}
	s.basis.Store(found.basis)
	s.ask = s.still
	shared.all = append(shared.all, s)
	return s.ask
}

// still says why the bearer would not be let in any more.
func (s *standing) still() *machine.Failure {
	now, known := time.Now(), s.basis.Load()
	if known.current(s.tokens.records, now) {
		return known.expired(now)
	}
	found, refused := s.tokens.meeting(&s.key, &s.need, now)
	if refused == nil {
		s.basis.Store(found.basis)
	}
	return refused
}

// meeting is here for a token that meets a need.
func (a *Authenticator) meeting(key *digest, need *need, now time.Time) (*entry, *machine.Failure) {
	found, refused := a.here(key, now)
	switch {
	case refused == nil:
		refused = need.metBy(a.config.Policy, &found.caller)
	case need.only401:
		refused = as401(refused)
	}
	return found, refused
}

func (n *need) metBy(policy permission.Policy, caller *endpoint.Caller) *machine.Failure {
	if n.all && !caller.Trusted { // the stream may show another user's data: a new request is refused with the reason
		return failure.New(failurepb.Code_FORBIDDEN, failure.TokenOwnerRole)
	}
	if !permission.Decide(policy, caller.Grant, n.service, n.level).Allowed {
		return failure.New(failurepb.Code_FORBIDDEN, failure.PermissionMissing).Param("service", n.service).Param("level", n.level)
	}
	return licensed(caller.Grant, n.path, n.highest)
}

// here is the entry of a known token, from the records of this node alone.
func (a *Authenticator) here(key *digest, now time.Time) (*entry, *machine.Failure) {
	found := a.remembered(key, now)
	if found == nil {
		r := reading{find: func(name, key string) (collection.Record, bool, error) {
			record, ok := a.records.Get(name, key)
			return record, ok, nil
		}}
		var refused *machine.Failure
		if found, refused = a.load(&r, *key, now); refused != nil {
			return nil, refused
		}
		a.cache.put(key, found)
	}
	return found, found.basis.expired(now)
}

// needOf is the need of a route of the Client API; none when the route names no level.
func needOf(route *endpoint.Route) (access.Service, access.Level) {
	service, text, _ := strings.Cut(route.Access, ":")
	level, _ := access.ParseLevel(text)
	return access.Service(service), level
}
