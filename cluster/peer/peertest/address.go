package peertest

import (
	"fmt"
	"math/rand/v2"
)

// Address is where a test's node may listen, now and when it comes back, on this port and the two above: on a loopback
// address of its own, drawn from 16 million. A port of 127.0.0.1 that is free now may be taken by anything that asks for any
// port, an outgoing connection too, before it is listened on.
func Address() string {
	return fmt.Sprintf("127.%d.%d.%d:%d", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254), 10_000+10*rand.IntN(2000))
}
