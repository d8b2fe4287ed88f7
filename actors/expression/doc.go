// Package expression compiles and evaluates untrusted expressions over untrusted values, for instance the condition of
// a tool's approval over a model's arguments.
//
// Invariants:
//
//   - Compile is bounded by the length of the source, the number of its nodes and their depth. Nothing of the expression
//     is evaluated at that time: there is no constant folding.
//   - Evaluation ends by its result, by its context, or by one of three budgets (steps, bytes, time). It runs in the
//     caller's goroutine and leaves nothing behind. A bounded number of evaluations run at once (see New); the others
//     wait until their context ends.
//   - Evaluate does no I/O and changes none of the values it is given.
//   - The text of an error is short, whatever the values are.
//
// # How it is bounded
//
// Every loop of the language is a closure (`all(list, # > 0)`). Compile puts a tick in front of the body of each
// closure, which pays for one round: a step for each node of the body, and what the body's literals and inner loops
// allocate. Operations whose cost depends on the size of their operands (comparing, joining and searching texts and
// lists, ranges, sorting, all functions over texts and lists) are replaced by a call that pays first, in proportion to
// the operands. Operands are weighed as trees: lists that share their elements (`reduce(1..60, [#acc, #acc])`) would
// take for ever to print or compare. The clock and the context are checked every few thousand steps, so small
// expressions pay nothing for it.
//
// # What is left out
//
// Functions that read files (timezone, date with three arguments); calls of anything but the functions of the language
// and some methods of times; patterns of `matches` that are not literals, or are too large; `$env`. A function that is
// new in a later release of the language is refused until it is listed in charges.
//
// A map in a closure needs parentheses: `map(list, {v: #})` is read as a block, `map(list, ({v: #}))` as a map.
//
// # Dependencies
//
// expr-lang/expr is a typed expression language without side effects. It has no limits of time or steps, and its memory
// limit only counts the elements of some operations.
package expression
