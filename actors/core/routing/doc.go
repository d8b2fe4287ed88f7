// Package routing has the rules of dynamic models: models of the catalog that have no provider, and choose among other models for each
// request (document 3, 10.6). It is pure: what a request looks like, prices, latencies, chance and the word of a deciding model come
// from Env.
//
// # What is tried
//
// Order returns the models that a request is tried with, in order. What a strategy means:
//
//   - rule-based: the target of the first rule that matches, without one defaultModelKey. A rule without conditions is skipped.
//   - model-based: the target of the label that the decider's model names, else defaultModelKey.
//   - priority: the targets as they are listed.
//   - weighted: the targets in a random order in which each is before the others as often as its weight says; weight 0 comes last.
//   - cheapest: by what the request would cost, as estimated; targets without a price last.
//   - fastest: by the latency that this node has measured; targets that it does not know, or not any more, first.
//
// The last four have all their targets tried, one after the other, and then defaultModelKey where there is one. fallbackModelKey is what
// is tried last, by any strategy.
//
// # Dynamic models as targets
//
// They may be nested, MaxNesting deep: Check refuses what is deeper, and cycles. In the place of a dynamic model stands what it
// would try. A decider is asked only where its word decides what goes first: other places take its default.
//
// # Keywords
//
// A keyword is text to be found, not a pattern, without regard to case, in the first MaxText bytes of the last user message. What
// comparing takes is bounded by MaxKeywords for all of a model.
package routing
