// Package tracing holds the rules of traces (document 3, section 12): what is taken of what programs report of their agents' sessions,
// what these add up to, and how sessions make a thread. It is pure.
//
// A trace must not break the program that is traced: a field of another type than it should have is left out, a text that is too long
// is cut, a list too. Only what says nothing at all is refused, and what would be kept without bounds.
//
// # Totals
//
// An event counts once, by its id. A summary says what a session took in all: it raises what the events add up to, and never lowers
// it. Both are kept apart (Session.counted is a sum, Session.said the most of each number), so totals depend neither on how events are
// cut into requests nor on when a summary comes.
package tracing
