package token

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"parley/actors/core/access"
	"parley/actors/core/collection"
	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/httpedge/endpoint"
	"parley/proto/failurepb"
)

var _ endpoint.Watcher = (*Authenticator)(nil)

// Watch returns what says whether the bearer of a token may still use a row of the Client API. All that ask the same of a token
// within a minute share it.
func (a *Authenticator) Watch(caller endpoint.Caller, row *endpoint.Row) func() *machine.Failure {
	service, level := needOf(row)
	return a.watch(caller, need{service: service, level: level, path: row.Path})
}

// need is what somebody was let in with.
type need struct {
	service access.Service
	level   access.Level
	path    string // that the licence must have; "" = whatever it has
	all     bool   // the whole project was within reach
	only401 bool   // see Always401
}

// standing is what becomes of a token that was let in with a need. It holds no more of the token than it takes to see that
// nothing has changed: there may be a stream for each of very many tokens.
type standing struct {
	tokens *Authenticator
	key    digest
	need   need
	basis  atomic.Pointer[basis] // as it was found last
	ask    func() *machine.Failure
}

// standings are those of one entry.
type standings struct {
	sync.Mutex
	all []*standing // one for each need that rows have
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
	if known.current(s.tokens.records) {
		return known.expired(now)
	}
	found, refused := s.tokens.meeting(&s.key, &s.need, now)
	if refused == nil {
		s.basis.Store(found.basis)
	}
	return refused
}

// meeting is here, of a token that meets a need.
func (a *Authenticator) meeting(key *digest, need *need, now time.Time) (*entry, *machine.Failure) {
	found, refused := a.here(key, now)
	switch {
	case refused == nil:
		refused = need.metBy(&found.caller)
	case need.only401:
		refused = as401(refused)
	}
	return found, refused
}

func (n *need) metBy(caller *endpoint.Caller) *machine.Failure {
	if n.all && !caller.Trusted { // it may be about what is another's: who asks anew hears
		return failure.New(failurepb.Code_FORBIDDEN, failure.TokenOwnerRole)
	}
	return permitted(caller.Grant, n.service, n.level, n.path)
}

// here is the entry of a token that was known, out of what this node knows without asking another one.
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

// needOf is what a row of the Client API asks for; none when it names no level.
func needOf(row *endpoint.Row) (access.Service, access.Level) {
	service, text, _ := strings.Cut(row.Access, ":")
	level, _ := access.ParseLevel(text)
	return access.Service(service), level
}
