// Package audio is the routes of sound of the OpenAI-compatible surface (document 3, section 11): /audio/speech,
// /audio/transcriptions and /audio/translations. Their errors are the gateway's.
//
// # Uploads
//
// A recording comes as a multipart form or as base64 in JSON, in any order of fields: often the model is named behind the file. It
// is decoded as it comes and kept in a Spool until the call is over, which is a file without a name in the node's data directory.
// It is not relayed to the provider while it comes: then no attempt could be repeated, a slow sender would hold a place at the
// provider, and what is wrong with the request (two files, no model, no base64) would be noticed when the provider has begun.
//
// Whatever is in a body beside the recording is bounded: maxFields fields, maxText bytes each, maxBeside in all. Fields that are not
// known are skipped. The recording is bounded by Config.MaxUpload, all that come at a time by the Spool.
//
// An Idempotency-Key is not heeded for recordings: to know one again, all of it would have to be read and kept first.
package audio
