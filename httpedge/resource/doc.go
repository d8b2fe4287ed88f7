// Package resource declares a record and its routes once. An Object lists a record's fields: name, getter, whether it may be null,
// which bodies may set it and where in the input of the rules it then goes, what it may be, what it means. From that list follow the
// encoder, the decoder of the bodies that create and change (in which "cleared" differs from "unchanged"), and the schemas of the API
// document; Create, Read, Change, Delete, List and Pages are its routes over the methods of a collection or of an entity's client.
// Handlers are written only where something is decided; what they answer holds a record by AppendJSON or JSON, and by Type in the
// document. A record that shows more when it is made (a secret, once) is a second object, whose Create has the body.
//
// Two libraries declare operations of Go types and were looked at. One (huma) makes documents and decoders of tagged structs, as
// endpoint does here: a record would still be a struct for each of its three bodies and the code between them. The other (ogen)
// generates both from a written document, which would be a fourth place for each field. Neither knows this server's failures as data,
// its permissions, or commands that are carried out once; this package is smaller than the adapters would be.
//
// Bodies that count (messages, events, deltas, conversations) are written by hand, see wire. So are records that would hardly be
// shorter here: tasks, whose three records stand beside something else in six of seven answers, each with a type of its own then (some 175
// lines for 193); users, who are in answers of two packages that the documents name after their Go types, and are made of a project
// that they do not show. And deletions with two keys or an answer of their own, as of tokens and files of sessions.
package resource
