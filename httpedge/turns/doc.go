// Package turns asks conversations on behalf of the surfaces: commands with their refusals, and waiting for a turn whose owner
// may move meanwhile. It also reads what clients of both surfaces send in different case: budgets, decisions on pending actions. What the
// surfaces make of it on the wire is theirs.
package turns
