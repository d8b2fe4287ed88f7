package machine

import "parley/proto/logpb"

// Relist moves an entity from its old place in a list to its new one. A score of 0 means that it is not in the list.
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

// Sooner returns the earlier of two times; 0 means no time.
func Sooner(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
