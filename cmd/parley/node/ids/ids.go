// Package ids mints random ids, and ids that follow from a text, in a shard of choice or in any.
package ids

import (
	"crypto/rand"
	"crypto/sha512"

	"parley/cluster/shard"
)

// IDs mints random ids; cluster/shard defines their form.
type IDs struct {
	Shards shard.Map
}

// New mints ids of these shards.
func New(shards shard.Map) IDs { return IDs{shards} }

// NewID mints an id of a kind in any shard.
func (i IDs) NewID(kind string) string {
	random := draw()
	return i.Shards.Mint(kind, &random)
}

// NewIDFor mints an id in the shard of the given one, in any shard if that is not an id.
func (i IDs) NewIDFor(kind, like string) string {
	in, ok := i.Shards.Of(like)
	if !ok {
		return i.NewID(kind)
	}
	random := draw()
	return i.Shards.MintIn(kind, in, &random)
}

// NewIDFrom derives an id of a kind from a text, always the same one.
func (i IDs) NewIDFrom(kind, text string) string {
	sum := sha512.Sum512([]byte(kind + "/" + text))
	return i.Shards.Mint(kind, (*[24]byte)(sum[:]))
}

// NewIDFromFor is NewIDFrom in the shard of the given id.
func (i IDs) NewIDFromFor(kind, text, like string) string {
	in, ok := i.Shards.Of(like)
	if !ok {
		return i.NewIDFrom(kind, text)
	}
	sum := sha512.Sum512([]byte(kind + "/" + text))
	return i.Shards.MintIn(kind, in, (*[24]byte)(sum[:]))
}

// ForShards mints ids for a given shard, for the shell.
type ForShards struct {
	shards shard.Map
}

// NewForShards mints ids for each of these shards.
func NewForShards(shards shard.Map) ForShards { return ForShards{shards} }

// NewID mints an id of a kind that belongs to a shard.
func (i ForShards) NewID(kind string, in uint32) string {
	random := draw()
	return i.shards.MintIn(kind, shard.ID(in), &random)
}

func draw() (random [24]byte) {
	_, _ = rand.Read(random[:]) // never fails: the runtime ends the process instead
	return random
}
