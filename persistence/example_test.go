package persistence_test

import (
	"context"
	"fmt"
	"os"

	"parley/persistence"
	"parley/proto/logpb"
)

// A store on one node: an append writes an entity's events, its head and the rows that follow from them, all or nothing. A
// writer that does not know the newest event is refused.
func ExampleStore_Append() {
	life := context.Background()
	dir, err := os.MkdirTemp("", "parley-example")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // a temporary directory
	store, err := persistence.Open(life, persistence.Options{Dir: dir, Shards: 1})
	if err != nil {
		panic(err)
	}
	defer store.Stop()
	store.Start()
	if err = store.WaitReady(life); err != nil {
		panic(err)
	}

	const shard, id = 1, "conv_example"
	created, err := store.Append(life, shard, &logpb.Append{
		Id: id, Create: true, Epoch: 1, Events: [][]byte{[]byte("created")}, Head: []byte("idle"),
		Listings: []*logpb.Listing{{List: "user/ada", Score: 1, Member: id}},
	})
	fmt.Println(created.GetOutcome(), created.GetSeq(), err)

	next := &logpb.Append{Id: id, ExpectedSeq: created.GetSeq(), Epoch: 1, Events: [][]byte{[]byte("began")}, Head: []byte("running")}
	for range 2 { // the second time the entity has moved on
		result, refused := store.Append(life, shard, next)
		fmt.Println(result.GetOutcome(), result.GetSeq(), refused)
	}

	err = store.Events(life, shard, id, persistence.FromStart, func(seq uint64, value []byte) bool {
		fmt.Printf("%d %s\n", seq, value)
		return true
	})
	rows, listed := store.List(life, persistence.ListQuery{List: "user/ada", Limit: 10})
	fmt.Println(len(rows), rows[0].Member, err, listed)
	// Output:
	// APPLIED 0 <nil>
	// APPLIED 1 <nil>
	// SEQ_MISMATCH 1 <nil>
	// 0 created
	// 1 began
	// 1 conv_example <nil> <nil>
}
