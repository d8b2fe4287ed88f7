package quota

import (
	"cmp"

	"parley/actors/core/collection"
	"parley/actors/core/failure"
	"parley/proto/failurepb"
)

// Names of the quotas of what the directory holds.
const (
	MaxProjects  = "maxProjects"
	MaxModels    = "maxModels"
	MaxAPITokens = "maxApiTokens"
	MaxUsers     = "maxUsers"
	MaxAgents    = "maxAgents"
)

// Names of the quotas of files and reported sessions that are kept, which an allowance counts beside what the shards do.
const (
	MaxFilesTotal = "maxFilesTotal"
	MaxStorage    = "maxStorageBytes"
	MaxSessions   = "maxTracingSessions"
)

// Places are the projects and users (empty = all) for whom something counts that is kept of them: each place has a counter of its own.
func Places(project, user string) [][2]string {
	all := [][2]string{{"", ""}}
	if project != "" {
		all = append(all, [2]string{project, ""})
	}
	if user != "" {
		all = append(all, [2]string{"", user})
	}
	if project != "" && user != "" {
		all = append(all, [2]string{project, user})
	}
	return all
}

// MaxRetention is for how many days what is reported is kept after the last that was heard of it.
const MaxRetention = "maxTracingRetentionDays"

// Thing is a record by which a quota is found, and which it counts. It is in every project, or domain, where that is empty: a policy of
// one bounds it all the same.
type Thing struct {
	ProjectID, Domain string
	UserID            string // who made it; of a token who acts by it
	Provider          string // key of the provider of a model
}

// bounds says whether a policy counts a thing. Policies of a token or a model bound none: nothing is made by one model, and records do not
// say by which token they were made.
func (p *Policy) bounds(thing Thing) bool {
	return p.fits(&Call{
		ProjectID: cmp.Or(thing.ProjectID, p.GetProjectId()), Domain: cmp.Or(thing.Domain, p.GetDomain()),
		UserID: thing.UserID, Provider: thing.Provider,
	})
}

// MostOf finds what is in force of a quota for a thing: the last policy, in the order of Read, that bounds it and says something. most is
// Unlimited, and the policy nil, where none says a limit.
func MostOf(policies []*Policy, name string, thing Thing) (most int64, from *Policy) {
	most = Unlimited
	for _, p := range policies {
		if said, says := p.Said.Quotas[name]; says && p.bounds(thing) {
			most, from = said, p
		}
	}
	if most < 0 {
		return Unlimited, nil
	}
	return most, from
}

// Kept are the records of a tenant that a quota counts.
type Kept[T any] struct {
	Records *collection.Collection[T]
	What    string // of what one more is refused, for people: "agents"
	Quota   string
	Term    string // that all of the tenant's records have
	Of      func(T) Thing
}

// Room refuses a new record when what is in force of its quota is used up: the records that the policy bounds are counted, whoever the
// policy is told of. It is to be called in the scope of the tenant's records (collection.Create): then the count still holds when the
// record is stored, however many are made at once on however many nodes. A policy itself counts from when the node has it, which is
// before its own creation is answered wherever nodes reach each other. What is there beyond a quota stays.
func (k Kept[T]) Room(policies []*Policy, made T) error {
	most, policy := MostOf(policies, k.Quota, k.Of(made))
	if policy == nil {
		return nil
	}
	count := k.Records.Count(k.Term)
	if int64(count) >= most { // only then it matters which of them it bounds, which takes decoding them
		all, err := k.Records.All(k.Term)
		if err != nil {
			return err
		}
		count = 0
		for _, record := range all {
			if policy.bounds(k.Of(record)) {
				count++
			}
		}
	}
	if int64(count) < most {
		return nil
	}
	return failure.New(failurepb.Code_QUOTA_REACHED, failure.RecordLimitReached).Param("records", k.What).Param("count", count).Param("most", most)
}
