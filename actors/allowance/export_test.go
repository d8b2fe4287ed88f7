package allowance

import "parley/actors/kit"

// Bounded is New with other bounds, for scripts.
func Bounded(calls int) kit.Entity { return entity(bound(calls)) }
