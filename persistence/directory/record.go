package directory

import "parley/actors/core/collection"

// Record is one record of a collection. It is the type that the rules read, so that a list is not copied on its way to them.
type Record = collection.Record
