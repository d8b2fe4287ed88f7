// Package gateway is the OpenAI-compatible surface: /chat/completions, /embeddings and /moderations, mounted where the Client
// API is and with its tokens (document 3, section 10). The official clients work unchanged against it.
//
// A body is checked and split, not decoded: what is in messages passes through. Errors are {error:{message,type,code,param}}.
//
// A streamed answer leaves HTTP once its first chunk is there, so that a failure before it has a status: until then the client
// gets nothing, for at most CallTimeout. From then on a silent stream (a model that thinks) gets a comment every PingEvery. One
// goroutine takes the chunks from the model and writes them; a second waits for the client to leave, which ends the model call,
// and pings. A client that reads nothing for WriteTimeout is cut off, too. After the end of the stream the connection serves
// further requests. Stop ends the running streams and waits for them.
//
// Moderations: guardrail keys name the built-in guardrail "default" (package moderate, rules over words: no model), and records
// of category moderation, which are asked.
package gateway
