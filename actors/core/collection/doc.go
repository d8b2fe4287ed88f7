// Package collection keeps typed records in the directory: small records that are in the memory of every node and are written
// through one shard (Store). A Declaration says how one kind of record is kept: its key, what is unique, what lists find it by.
//
//	accounts := collection.Proto(store, collection.Declaration[*directorypb.User]{
//		Name: "users", Noun: "user", Key: (*directorypb.User).GetId, Created: (*directorypb.User).GetCreatedAt,
//		Scope:  func(u *directorypb.User) string { return collection.Scope("users", u.GetTenantId()) },
//		Terms:  func(u *directorypb.User) []string { return []string{collection.Term("tenant", u.GetTenantId())} },
//		Unique: []collection.Unique[*directorypb.User]{{Field: "email", Of: (*directorypb.User).GetEmail, Taken: emailTaken}},
//	})
//
// # Guarantees
//
// Create and Change decide in the record's scope, one write after another across all nodes: a unique value is stored once, and a
// Limit is never exceeded, however many callers write at the same time on however many nodes. What their callbacks read of the
// scope still holds when the write is applied; they are called again after a conflict, so they must only read and edit the value.
//
// Page, Count and Lookup use an index of terms that is kept in memory and follows the store: a record is decoded once when it
// changes and once more for each page that shows it. Every write that has returned is visible in them on this node.
//
// The encodings are those of protobuf and encoding/json. Fields that this release does not know survive a Change: protobuf keeps
// them by itself, and JSON collections carry them over.
package collection
