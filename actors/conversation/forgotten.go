package conversation

import (
	"slices"

	"parley/proto/conversationpb"
)

// maxForgotten is how many nodes are told apart: what is forgotten of those that were heard of longest ago is put together.
const maxForgotten = 16

// forget notes when a command was issued whose outcome is remembered no more, by the clock of the node that issued it. The release
// before reads forgotten_at alone.
func forget(next *conversationpb.State, gone *conversationpb.Outcome) {
	next.ForgottenAt = max(next.GetForgottenAt(), gone.GetIssuedAt())
	by := gone.GetIssuedBy()
	if by == "" {
		return
	}
	forgotten := slices.Clone(next.GetForgotten()) // shared with the state before
	newest := &conversationpb.Forgotten{IssuedBy: by, IssuedAt: max(gone.GetIssuedAt(), next.GetForgottenRest())}
	if at := slices.IndexFunc(forgotten, func(f *conversationpb.Forgotten) bool { return f.GetIssuedBy() == by }); at >= 0 {
		newest.IssuedAt = max(newest.GetIssuedAt(), forgotten[at].GetIssuedAt())
		forgotten = slices.Delete(forgotten, at, at+1)
	}
	forgotten = append(forgotten, newest)
	if len(forgotten) > maxForgotten {
		next.ForgottenRest = max(next.GetForgottenRest(), forgotten[0].GetIssuedAt(), 1)
		forgotten = slices.Delete(forgotten, 0, 1)
	}
	next.Forgotten = forgotten
}

// forgottenOf is the newest issued_at of a node's commands that are forgotten; false: none is. A command that does not say who issued
// it is compared with all.
func forgottenOf(s *conversationpb.State, by string) (at int64, some bool) {
	if by == "" {
		return s.GetForgottenAt(), s.GetForgottenAt() > 0
	}
	for _, f := range s.GetForgotten() {
		if f.GetIssuedBy() == by {
			return f.GetIssuedAt(), true
		}
	}
	return s.GetForgottenRest(), s.GetForgottenRest() > 0
}
