// Package tool makes an agent's tools callable: HTTP endpoints, operations of OpenAPI documents, tools of MCP servers,
// the built-in ask_user, and client tools, which the caller's side runs. A Toolbox holds what they share: connections
// to MCP servers, parsed documents, compiled expressions. A turn opens its agent's Set, passes the definitions to the
// model, judges each call that the model makes, and runs those that need no person.
//
// Invariants:
//
//   - A call is run only with arguments that are a JSON object and fit the tool's schema. An approval expression that
//     cannot be evaluated, or is too expensive (see actors/expression), asks a person.
//   - A run ends by its result, its timeout or its context. Its result is valid UTF-8 of bounded length; so is the text
//     of its error, which contains no header, key, URL or address and may be shown to a model.
//   - Every outbound connection goes through deliver.Guard. A configured header goes to the configured host only.
//   - The turn's runtime context (Call.Context) is passed to a target only as its own policy permits: tool:<name> for
//     HTTP tools and documents, mcp:<name> for servers. It belongs to the call, never to an MCP session, which is
//     shared; it is not sent to another host or quoted in an error. A server whose policy permits it finds the turn's
//     user, token, source and metadata in _meta parley/runtime-context.
//   - Every try of one call carries the same idempotency key: header Idempotency-Key, and _meta parley/idempotency-key.
//   - An MCP server that cannot be reached only loses its own tools, and delays the turns that wait for the first
//     attempt; it is tried again after a pause. A turn's set does not change: new tools of a server are in the next
//     turn's set, which waits for them where the server said that its list has changed.
//   - Values of results and schemas are as the server wrote them: they are taken out of the connection before the client
//     library decodes them. Of a result or a list, what cannot be read costs nothing else.
//   - A server that does not know the session any more is initialised again, and the call made again once.
//   - Close ends every session and process and waits for them.
//
// It records nothing and makes no decisions about a turn: the runner and the rules decide whether a call may be run
// again. By itself the package only repeats a call that certainly did not arrive.
//
// # Names and arguments
//
// A definition is called as configured, an operation `<name>_<operation id>` (without the prefix when the document has
// no name), an MCP tool `<name>_<tool>`; characters that a model's API does not permit in a name become _, and it is cut.
// Of tools whose names meet, one whose name was not changed keeps it; the others end with a hash of who they are. Inspect
// says which tools are left out. Path, query and header
// parameters of an operation and the properties of its JSON body are one flat object; a body that is not an object, or
// shares a name with a parameter, is the property `body`.
//
// # Dependencies
//
// modelcontextprotocol/go-sdk is the official client of the protocol. kin-openapi reads OpenAPI 3 documents and
// resolves their references.
package tool
