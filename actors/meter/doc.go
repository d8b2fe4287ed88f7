// Package meter holds the rules that count the usage of gateway calls, which belongs to no conversation: a node gives its meter batch
// after batch of rows, in order, and a batch that it gives again, since it does not know what became of it, is not counted again. One
// start of a node has one meter, so that no two write to one.
//
// A meter that was given nothing for a month is gone: no node remembers a batch for so long.
// states.md has the state table.
package meter
