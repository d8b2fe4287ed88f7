package attachment_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"parley/actors/core/attachment"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
)

func TestAccepts(t *testing.T) {
	require.True(t, attachment.Accepts(nil, "a/b"))
	require.True(t, attachment.Accepts([]string{"text/plain", "Image/*"}, "image/png"))
	require.True(t, attachment.Accepts([]string{"text/plain; charset=utf-8"}, "Text/Plain; charset=ascii"))
	require.True(t, attachment.Accepts([]string{"*/*"}, "a/b"))
	require.True(t, attachment.Accepts([]string{" * "}, "a/b"))
	require.False(t, attachment.Accepts([]string{"image/*"}, "imagery/png"))
	require.False(t, attachment.Accepts([]string{"image/png"}, "image/png2"))
	require.False(t, attachment.Accepts([]string{""}, "image/png"))
}

func TestKept(t *testing.T) {
	for _, file := range []*conversationpb.File{{Id: "kept"}, {Id: "later", ExpiresAt: 11}} {
		require.Len(t, attachment.Kept([]*conversationpb.File{file, {Id: "over", ExpiresAt: 10}}, 10), 1, file.GetId())
	}
	require.Equal(t, 10, attachment.MaxFiles(nil))
	require.Equal(t, 3, attachment.MaxFiles(&agentpb.Attachments{MaxFiles: 3}))
}
