// Package protocol is the A2A protocol as it stands on the wire: JSON-RPC 2.0 calls and answers, messages, tasks, the events of a
// stream, and the agent card. It knows versions 0.3 and 1.0, which differ in the names of methods and in the JSON of nearly
// everything else; the caller's version is that of the method it calls (document 1, "A2A rules"; document 3, section 9).
//
// The package is pure: bytes to values and back. What a call does is up to the surface that serves it.
package protocol
