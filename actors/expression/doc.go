// Package expression compiles and evaluates expressions that somebody else wrote, over values that a third party wrote:
// the condition of a tool's approval over the arguments of a model.
//
// Invariants:
//
//   - Compile is bounded by the length of the source, the number of its nodes and their depth. Nothing of the expression
//     is evaluated at that time: there is no constant folding.
//   - Evaluate ends: by its result, by its context, or by one of three budgets (steps, bytes, time). It runs in the
//     caller's goroutine and leaves nothing behind. At most so many evaluations run at once as New was told; the others
//     wait in line until their context ends.
//   - Evaluate does no I/O and changes none of the values it is given.
//   - An error's text is short, whatever the values are.
//
// # How it is bounded
//
// Every loop of the language is a closure (`all(list, # > 0)`). Compile puts a tick in front of the body of each closure,
// which pays for one round: a step for each node of the body, and what the body's literals and inner loops allocate. What
// costs as much as its operands are large (comparing, joining and searching texts and lists, ranges, sorting, all
// functions over texts and lists) is replaced by a call that pays first, in proportion to the operands. Operands are
// weighed as trees: lists that share their elements (`reduce(1..60, [#acc, #acc])`) would take for ever to print or compare.
// The clock and the context are looked at every few thousand steps, so that small expressions pay nothing.
//
// # What is left out
//
// Functions that read files (timezone, date with three arguments); calls of anything but the functions of the language and
// some methods of times; patterns of `matches` that are not written out, or are too large; `$env`. A function that a
// later release of the language brings is refused until it is listed in charges.
//
// A map in a closure needs parentheses: `map(list, {v: #})` is read as a block, `map(list, ({v: #}))` as a map.
//
// # Dependencies
//
// expr-lang/expr is a typed expression language without side effects. It has neither a limit of time nor one of steps,
// and its limit of memory counts elements of some operations only.
package expression
