// Package tool makes an agent's tools callable: HTTP endpoints, operations of OpenAPI documents, tools of MCP servers, the
// built-in ask_user, and client tools, which the caller's side runs. A Box holds what they share: connections to MCP
// servers, parsed documents, compiled expressions. A turn opens its agent's Set, tells the model of the definitions,
// judges each call the model asks for, and runs those that need nobody.
//
// Invariants:
//
//   - A call is run only with arguments that are a JSON object and fit the tool's schema. An approval expression that
//     cannot be evaluated, or is too expensive (see actors/expression), asks a person.
//   - A run ends: by its result, its timeout or its context. Its result is valid UTF-8 of bounded length; so is the text
//     of its error, which holds no header, key, URL or address and may be shown to a model.
//   - Every outbound connection goes through deliver.Guard. A configured header goes to the configured host only.
//   - What a turn's caller hands on (Call.Context) reaches a target under its own policy alone: tool:<name> for HTTP tools and
//     documents, mcp:<name> for servers. It goes with the call, never with an MCP session, which others use too; not to
//     another host; and not into the text of an error. A server that lets it pass finds the turn's user, token, source and
//     metadata in _meta parley/runtime-context.
//   - Every try of one call carries the same idempotency key: header Idempotency-Key, and _meta parley/idempotency-key.
//   - An MCP server that cannot be reached costs its own tools, and the turns that wait for the first try; it is tried
//     again after a pause. A set does not change under a turn: what a server offers anew is in the next turn's set.
//   - Close ends every session and process and waits for them.
//
// It journals nothing and decides nothing about a turn: whether a call may be run again is the runner's and the rules' to
// say. A tool here repeats a call by itself only when it is certain that it did not arrive.
//
// # Names and arguments
//
// A definition is called as configured, an operation `<name>_<operation id>` (without the prefix when the document has no
// name), an MCP tool `<name>_<tool>`; what a model's API does not take in a name becomes _. Of two tools of one name the
// first stays: plain tools, ask_user, documents, servers. Path, query and header parameters of an operation and the
// properties of its JSON body are one flat object; a body that is not an object, or shares a name with a parameter, is
// the property `body`.
//
// # Dependencies
//
// modelcontextprotocol/go-sdk is the official client of the protocol. kin-openapi reads OpenAPI 3 documents and
// resolves their references.
package tool
