package machine

import "parley/proto/logpb"

// Relist moves an entity from the place that it had in a list to the one that it has. A score of 0 is no place.
func Relist(into *logpb.Append, list, entity string, from, to int64) {
	if from == to {
		return
	}
	if from != 0 {
		into.Listings = append(into.Listings, &logpb.Listing{List: list, Score: from, Member: entity, Delete: true})
	}
	if to != 0 {
		into.Listings = append(into.Listings, &logpb.Listing{List: list, Score: to, Member: entity})
	}
}

// Sooner is the earlier of two times, of which 0 is none.
func Sooner(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
