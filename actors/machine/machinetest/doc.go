// Package machinetest runs the rules of any entity without a shell: from scripts, from random walks, from recorded
// histories. Entity does what the shell does with a decision, in memory, and checks on every step what the contract
// of package machine promises whatever the rules are: events numbered without a gap, Evolve leaving its input alone
// and folding alike in one piece or many, rows that fit what is stored, everything fit to be marshalled.
//
// A script (datadriven format) is a list of these commands; each prints what came of it:
//
//	reset                          there is no entity
//	given                          the input is the state to start from, as text-format protobuf
//	do       [now= node= epoch= since= survived=]   the input is a command, as text-format protobuf
//	activate [now= node= epoch= since= survived=]   load the entity: the command of OnActivate, and what came of it
//	state                          print the state
//	rows                           print the rows of storage
//	record   file=                 with -rewrite, keep the journal and the state as a history, once
//
// now is in milliseconds; now, node and epoch stay as they are until given anew. survived is the epoch that is known not to
// have ended with its process, for this one command. Ids are minted as kind_1, kind_2.
//
// It does not test effects: what they do is the shell's business.
package machinetest
