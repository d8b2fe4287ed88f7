// Package standin is the other side of a server under test: a model and its tools, over real HTTP, that keep books.
//
// The model speaks the streaming form of Chat Completions. What it does is said in the newest message of the user that
// has a case, by words of the form name=value; everything else in it is only prompt:
//
//	case=ID      on whose account its charges go
//	say=N        tokens it says, DefaultSay when absent; each is four bytes
//	pace=20ms    time between two tokens, none when absent
//	tools=a,b|c  it calls tools a and b together, then c, and then answers
//
// It charges what a provider would: the prompt, and every token that it has sent, whether anybody was still there to
// read it or not. The tools count what they did by idempotency key. The server's money and its tool runs are held
// against these books.
//
// It imports nothing of the server.
package standin
