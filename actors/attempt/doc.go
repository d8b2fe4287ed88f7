// Package attempt holds the rules that count attempts, of sign-ins for example: so many within a window of time, in the whole
// cluster. An entity stands for one thing that is counted, such as an address. Since it takes one command at a time, no more than
// the limit are allowed, however many ask at once on however many nodes. A command that is carried out twice counts twice: never
// too many are allowed.
//
// The window is fixed: it begins with the first attempt, and the entity is gone when it is over. What is refused is not written.
// states.md has the state table.
package attempt
