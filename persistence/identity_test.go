package persistence

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func FuzzDecodeIdentity(f *testing.F) {
	f.Add(encodeIdentity(Identity{ClusterID: "c", NodeID: 1, Shards: 16, Format: 1}))
	f.Add([]byte(identityTitle + "\n{}\ncrc32c 00000000\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		id, err := decodeIdentity(data)
		if err == nil {
			again, err := decodeIdentity(encodeIdentity(id))
			require.NoError(t, err)
			require.Equal(t, id, again)
		}
	})
}
