package node

import (
	"crypto/rand"
	"crypto/sha512"

	"parley/cluster/shard"
)

// ids mints random ids; cluster/shard defines their form.
type ids struct {
	shards shard.Map
}

// NewID mints an id of a kind in any shard.
func (i ids) NewID(kind string) string {
	random := draw()
	return i.shards.Mint(kind, &random)
}

// NewIDFor mints an id in the shard of the given one, in any shard if that is not an id.
func (i ids) NewIDFor(kind, like string) string {
	in, ok := i.shards.Of(like)
	if !ok {
		return i.NewID(kind)
	}
	random := draw()
	return i.shards.MintIn(kind, in, &random)
}

// NewIDFrom derives an id of a kind from a text, always the same one.
func (i ids) NewIDFrom(kind, text string) string {
	sum := sha512.Sum512([]byte(kind + "/" + text))
	return i.shards.Mint(kind, (*[24]byte)(sum[:]))
}

// NewIDFromFor is NewIDFrom in the shard of the given id.
func (i ids) NewIDFromFor(kind, text, like string) string {
	in, ok := i.shards.Of(like)
	if !ok {
		return i.NewIDFrom(kind, text)
	}
	sum := sha512.Sum512([]byte(kind + "/" + text))
	return i.shards.MintIn(kind, in, (*[24]byte)(sum[:]))
}

// shardIDs mints ids for a given shard, for the shell.
type shardIDs struct {
	shards shard.Map
}

// NewID mints an id of a kind that belongs to a shard.
func (i shardIDs) NewID(kind string, in uint32) string {
	random := draw()
	return i.shards.MintIn(kind, shard.ID(in), &random)
}

func draw() (random [24]byte) {
	_, _ = rand.Read(random[:]) // never fails: the runtime ends the process instead
	return random
}
