// Package resource declares a record and its routes once. An Object lists a record's fields: name, getter, whether it may be null,
// which bodies may set it and where in the input of the rules it then goes, what it may be, what it means. From that list follow the
// encoder, the decoder of the bodies that create and change (in which "cleared" differs from "unchanged"), and the schemas of the API
// document; Create, Read, Change, Delete and List are its routes over the methods of a collection or of an entity's client. Handlers
// are written only where something is decided.
//
// Two libraries declare operations of Go types and were looked at. One (huma) makes documents and decoders of tagged structs, as
// endpoint does here: a record would still be a struct for each of its three bodies and the code between them. The other (ogen)
// generates both from a written document, which would be a fourth place for each field. Neither knows this server's failures as data,
// its permissions, or commands that are carried out once; this package is smaller than the adapters would be.
//
// Bodies that count (messages, events, deltas, conversations) are written by hand, see wire.
package resource
