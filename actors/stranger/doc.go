// Package stranger bounds the memory of what others answer: MCP servers, HTTP tools, connected agents, model providers. A node
// has one Budget. Whoever reads such an answer opens an Answer, takes memory before it reads or decodes, and waits where there is
// none, until the deadline of its call.
//
// Half of a budget is the pool. A tenant may hold as much of it as is free then: one alone half, two a third each, so that
// nobody ever finds it empty because of one other. Who waits is served tenant by tenant. The other half is a reserve for one
// answer at a time: where nobody who waits can be served, all of them may hold a part and wait for the rest, so one is given
// what it needs to come to its end. It has Hurry for that; the reserve also bounds a single answer.
//
// The first Free bytes of an answer are not counted: a call takes more by itself, and the number of calls is bounded elsewhere.
package stranger
