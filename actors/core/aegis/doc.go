// Package aegis decides about what agents read, call and say (document 1, "Aegis"; document 3, section 15): a Shield is a policy, a
// Call one thing that is about to happen at a Stage, and a Result what may become of it.
//
// Five decisions, the strictest of all findings counts: allow; redact (go on with what is left of the resource); sandbox (go on where it
// can do no harm); require_approval (a person decides about this very call, once); block. A shield that only simulates, or is disabled,
// enforces none of them.
//
// The package is pure. What needs the world is given to Evaluate as functions: JSON Schemas are checked, calls counted and approvals
// used elsewhere.
package aegis
