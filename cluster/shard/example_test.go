package shard_test

import (
	"crypto/rand"
	"fmt"
	"strings"

	"parley/cluster/shard"
)

// An id names the shard of what it belongs to, so any node can route a request without looking anything up.
func ExampleMap() {
	shards, _ := shard.New(16)
	var random [24]byte
	_, _ = rand.Read(random[:]) // never fails
	conversation := shards.Mint("conv", &random)
	home, _ := shards.Of(conversation)

	_, _ = rand.Read(random[:])
	run := shards.MintIn("run", home, &random)
	in, _ := shards.Of(run)
	fmt.Println(strings.HasPrefix(run, "run_"), in == home)

	_, known := shards.Of("not an id")
	fmt.Println(known)
	// Output:
	// true true
	// false
}

// Two nodes join a cluster of one. The first step of the plan is a copy without a vote: it changes nothing until it has
// caught up.
func ExamplePlan() {
	node := func(id shard.NodeID) shard.Node {
		return shard.Node{ID: id, Name: fmt.Sprint("n", id), Live: true, Free: 1 << 40}
	}
	view := shard.View{
		Count:  1,
		Nodes:  []shard.Node{node(1), node(2), node(3)},
		Groups: []shard.Group{{Shard: 1, Leader: 1, Epoch: 5, Voters: []shard.NodeID{1}}},
	}
	for _, step := range shard.Plan(view, shard.DefaultPolicy()) {
		fmt.Println(step.Change == shard.AddLearner, "shard", step.Shard, "node", step.Node)
	}
	// Output: true shard 1 node 2
}
