package turn

import "parley/proto/agentpb"

// Cost is the price of so many tokens in nano-dollars, rounded up once, so that what is charged is never below what was
// consumed. Cached input is part of the input; a price without one for it charges it like the rest. No price costs nothing.
func Cost(price *agentpb.Price, input, cached, output int64) int64 {
	return cost(price, input, cached, output)
}
