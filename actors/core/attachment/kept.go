package attachment

import (
	"slices"

	"parley/actors/core/quota"
	"parley/actors/machine"
	"parley/proto/conversationpb"
	"parley/proto/logpb"
)

// CountsOf names the counters of the files that are kept, and of their bytes: of a tenant, of one project or of all (empty), of who stored
// them or of anybody (empty). A file that an older release stored is in none.
func CountsOf(tenant, project, user string) (files, bytes string) {
	of := machine.ListPart(tenant) + "/" + machine.ListPart(project) + "/" + machine.ListPart(user)
	return "files/n/" + of, "files/b/" + of
}

// Count changes these counters by what is kept of a project after a change and was not before.
func Count(tenant, project string, was, is []*conversationpb.File, into *logpb.Append) {
	if len(was) == len(is) && slices.EqualFunc(was, is, func(a, b *conversationpb.File) bool { return a.GetId() == b.GetId() }) {
		return
	}
	var counts []*logpb.Count
	add := func(name string, delta int64) {
		if at := slices.IndexFunc(counts, func(c *logpb.Count) bool { return c.GetName() == name }); at >= 0 {
			counts[at].Delta += delta
			return
		}
		counts = append(counts, &logpb.Count{Name: name, Delta: delta})
	}
	all := func(kept []*conversationpb.File, sign int64) {
		for _, file := range kept {
			if file.CountedFor == nil {
				continue
			}
			for _, of := range quota.Places(project, file.GetCountedFor()) {
				files, bytes := CountsOf(tenant, of[0], of[1])
				add(files, sign)
				add(bytes, sign*file.GetSize())
			}
		}
	}
	all(was, -1)
	all(is, 1)
	for _, c := range counts {
		if c.GetDelta() != 0 {
			into.Counts = append(into.Counts, c)
		}
	}
}
