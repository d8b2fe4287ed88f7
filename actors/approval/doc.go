// Package approval holds what a shield asked a person about one call (package actors/core/aegis).
//
// An approval is pending, approved or denied by a person, used when the call was let through, and removed when its time is over,
// whatever became of it. Its id is made of the call: a call that is repeated asks once, and after it was let through asks anew. It is
// let through for whoever names the approval or the token that its approval made, once, however many try. states.md is the state table.
package approval
