// Package password hashes and checks passwords with bcrypt, apart from everything else: a hash takes a quarter of a second of a
// processor, so hashes are made by worker processes of low priority, a few at a time, and others wait in a bounded queue.
//
// A worker is this program run again with WorkerArgument. It reads requests from its standard input and ends with it, so it never
// outlives the node. Where no process can be started, hashes are made in this one.
package password
