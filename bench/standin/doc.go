// Package standin simulates the services that a server under test calls: a model and tools, over real HTTP, which
// record their calls.
//
// The model implements streaming Chat Completions. The newest user message with a case controls it, with words of the
// form name=value; the rest of the message is only prompt:
//
//	case=ID      on whose account its charges go
//	say=N        tokens it says, DefaultSay when absent; each is four bytes
//	pace=20ms    time between two tokens, none when absent
//	tools=a,b|c  it calls tools a and b together, then c, and then answers
//
// It charges like a provider: for the prompt, and for every token that it has sent, whether or not the client was still
// there to read it. The tools count their runs by idempotency key. The server's costs and tool runs are checked against
// these records.
//
// It imports nothing of the server.
package standin
