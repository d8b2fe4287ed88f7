// Package definition knows what clients of the Client API write about agents, models and providers (document 3, sections 7 and
// 10): how an agent's config looks, what of it is secret, which metadata means something to the server, and what the settings
// and prices of a model are. The edge reads what clients send with it, the node what is stored.
//
// # An agent's config
//
// A native config has the keys of document 3, 7.4, and ours beside them, named as in the configuration file:
//
//	maxTurns    model calls in one turn
//	titles      titles made from the first exchange
//	askUser     the agent may ask the person questions
//	tools[]     {name, description, inputSchema, and one of url (with method, headers, runtimeHeaders), client and builtin;
//	            approval, when, approvalPrompt, idempotent, timeoutMs, maxResultBytes, actionTimeoutMs}
//	mcpServers[] {name, url, headers, runtimeHeaders, toolNames, and the keys of a tool from approval on}
//
// Further keys are kept and shown, and mean nothing. A toolBinding with source system offers the built-in tools that its
// toolNames, or its sourceKey, name; other bindings are skipped.
//
// A connected agent's config is {kind: external, connection}; see Connection.
//
// # Secrets
//
// connection.apiKey and the values of all headers are secrets: Read takes them out of the config, Draft.Seal encrypts them. In
// the config that is stored and shown a header's value is Mask, and whoever sends Mask back keeps the value. A sealed secret
// is about "<record key>/<path>", so it opens nowhere else. It goes only to the host that it was given for: Draft.Seal does not
// keep one whose URL has moved (Origin). Credentials in other places are refused, ciphertext of a client (apiKeyEnc) is dropped.
package definition
