// Package follow is the contract between those who pass changes of a conversation on (the live streams of its owner, the router
// of a node, the hub of the edge), and what their errors say of the owner of a shard.
//
// Errors that cross sides say so by methods anywhere in their chain, so that no side needs another one's types:
//
//	NotOwner() (shard uint32, epoch uint64)  nothing was done, the node that was asked does not own the shard (any more)
//	Owner() string                           beside NotOwner: who owns it under that epoch, "" = not known
//	Lost() bool                              true: it may have been done, and no answer will come
//	Unavailable() bool                       true: it cannot be had right now, and may be later
package follow

import (
	"errors"

	"parley/proto/conversationpb"
)

// Sink hears what happens on a followed conversation: changes in order and once each. The calls never overlap and must not block.
type Sink interface {
	Change(change *conversationpb.Change)
	// Closed says that the subscription ended, and why (owner moved, conversation deleted, node stops): subscribe anew if wanted. It
	// is called at most once, and nothing follows it.
	Closed(reason error)
}

// IsNotOwner reports whether an error says that the node that was asked does not own the shard.
func IsNotOwner(err error) bool {
	var notOwner interface{ NotOwner() (uint32, uint64) }
	return errors.As(err, &notOwner)
}

// IsLost reports whether an error says that a command may have been carried out and will not be answered.
func IsLost(err error) bool {
	var lost interface{ Lost() bool }
	return errors.As(err, &lost) && lost.Lost()
}

// IsUnavailable reports whether an error says that something cannot be had right now.
func IsUnavailable(err error) bool {
	var unavailable interface{ Unavailable() bool }
	return errors.As(err, &unavailable) && unavailable.Unavailable()
}
