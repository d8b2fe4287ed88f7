// Package body is what the requests and answers of the conversation server look like: the JSON of each record, how it is described
// in the API document, the inputs whose fields follow a record's, and the one table of statuses and codes of refusals. A property
// test compares what records append with encoding/json over the types that describe them.
package body
