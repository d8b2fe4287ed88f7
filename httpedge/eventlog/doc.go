// Package eventlog renders a conversation's event log: events as JSON, and as frames of a live event stream. The surfaces
// with conversations share it, so that an event looks the same wherever it is read (document 2, section A, "Events").
//
// Data is in snake_case on all surfaces. Where their names differ, a Dialect selects the surface.
package eventlog
