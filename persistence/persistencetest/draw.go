package persistencetest

import (
	"pgregory.net/rapid"

	"parley/proto/logpb"
)

// Draw returns a random append to one of a few entities. Most are accepted, and every kind of refusal occurs.
func (m *Model) Draw(t *rapid.T) (group uint32, a *logpb.Append) {
	letter := rapid.SampledFrom([]string{"a", "b", "c", "d"})
	group = rapid.Uint32Range(1, m.shards).Draw(t, "group")
	a = &logpb.Append{Id: letter.Draw(t, "id"), Head: []byte(letter.Draw(t, "head")), Epoch: 3}
	seq, exists := m.Seq(group, a.GetId())
	a.Create, a.ExpectedSeq = !exists, seq
	switch rapid.IntRange(0, 9).Draw(t, "kind") {
	case 0:
		a.Create = !a.GetCreate()
	case 1:
		a.ExpectedSeq += rapid.Uint64Range(0, 2).Draw(t, "ahead")
	case 2:
		a.Epoch = rapid.Uint64Range(2, 4).Draw(t, "epoch")
	case 3:
		a.DeleteEntity = exists
	}
	if a.GetCreate() {
		a.ExpectedSeq = 0
	}
	for range rapid.IntRange(0, 3).Draw(t, "events") {
		a.Events = append(a.Events, []byte(letter.Draw(t, "event")))
	}
	a.Unkept = uint32(max(0, rapid.IntRange(-4, 2).Draw(t, "unkept")))
	for range rapid.IntRange(0, 3).Draw(t, "items") {
		a.Items = append(a.Items, &logpb.Item{
			Table: rapid.Uint32Range(1, 3).Draw(t, "table"), Key: []byte(letter.Draw(t, "key")),
			Value: []byte(letter.Draw(t, "value")), Delete: rapid.IntRange(0, 3).Draw(t, "remove") == 0,
		})
	}
	for range rapid.IntRange(0, 3).Draw(t, "listings") {
		a.Listings = append(a.Listings, &logpb.Listing{
			List: letter.Draw(t, "list"), Score: rapid.Int64Range(-2, 2).Draw(t, "score"), Member: letter.Draw(t, "member"),
			Value: []byte(letter.Draw(t, "value")), Delete: rapid.IntRange(0, 3).Draw(t, "remove") == 0,
		})
	}
	for range rapid.IntRange(0, 2).Draw(t, "counts") {
		a.Counts = append(a.Counts, &logpb.Count{Name: letter.Draw(t, "count"), Delta: rapid.Int64Range(-2, 2).Draw(t, "delta")})
	}
	a.Sums = m.DrawSums(t)
	for _, id := range modelFiles()[:max(0, rapid.IntRange(-6, 2).Draw(t, "files"))] {
		a.Blobs = append(a.Blobs, drawChange(t, id, a.GetDeleteEntity()))
	}
	return group, a
}
