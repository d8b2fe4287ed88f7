// Package eventlog shows a conversation's event log: events as JSON, and live as frames of an event stream. The surfaces that
// show conversations share it, so that the same event looks the same wherever it is read (document 2, section A, "Events").
//
// Data is in snake_case on all surfaces. Where their words differ nevertheless, a Dialect says whose are wanted.
package eventlog
