// Package aegis decides about what agents read, call and say (document 1, "Aegis"; document 3, section 15): a Shield is a policy, a
// Call one thing that is about to happen at a Stage, and a Result what may become of it.
//
// Five decisions, the strictest of all findings counts: allow; redact (go on with what is left of the resource); sandbox (go on where it
// can do no harm); require_approval (a person decides about this very call, once); block. A shield that only simulates, or is disabled,
// enforces none of them.
//
// A model may judge what the rules let through (LLM). It sees what is left of a call without what is redacted, as data between lines that the
// data cannot imitate, and answers with a risk; only an answer that is nothing else counts. It makes a decision stricter, never milder. No
// verdict (it failed, was late, may not be paid, cannot be shown all) is a block, or, in a shield that says so, no finding. Whoever is
// blocked is told of the risk, not the judge's words: these may repeat what is hidden.
//
// The package is pure. What needs the world is given to Evaluate as functions: JSON Schemas are checked, calls counted, approvals
// used and models asked elsewhere.
package aegis
