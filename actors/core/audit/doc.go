// Package audit holds what the parts of the audit trail have in common: a row's canonical form and hash, the check of a chain, what
// is shown of a changed record, and the notes that a request takes of the records it changes. It is pure.
//
// A row's canonical form is its JSON object without "hash": members in order of their names, no spaces, texts escaped as
// encoding/json does without HTML. Its hash is SHA-256 over that, in hexadecimal. Since "previousHash" is a member, a row that is
// altered, removed, inserted or moved does not fit its neighbours any more.
package audit
