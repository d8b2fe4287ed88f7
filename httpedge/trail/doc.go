// Package trail writes the audit trail (packages actors/core/audit and actors/audit): what the endpoint tells it of requests becomes
// rows of their tenant's chain.
//
// A request is written down before it is carried out, and its outcome before it is answered. Rows of one tenant that come together
// share an append, one batch at a time. A refusal by permissions is written without anybody waiting for it, and equal ones of a
// second are one row: whoever is refused often neither fills the trail nor slows anything down.
package trail
