// Package wave knows as much of sound as this server needs: how long a RIFF/WAVE recording is, and the speech of the scripted
// provider, which is tones that are heard again as the text that they were made of. It is pure, but for what it reads.
//
// Numbers in a recording come from strangers: none is believed that its own bytes contradict.
package wave

import (
	"encoding/binary"
	"io"
)

// Recording is what the head of a RIFF/WAVE file says, as far as the file bears it out.
type Recording struct {
	Format, Channels, Bits int
	Rate                   int   // samples a second
	At, Bytes              int64 // where its samples are, and how many bytes
	bytesPerSecond         int64
}

// Formats of samples.
const (
	PCM        = 1
	float      = 3
	extensible = 0xfffe
)

// Bounds of what is believed.
const (
	maxChunks   = 64
	maxChannels = 64
	maxRate     = 768_000
	minRate     = 1_000
	minPerSec   = 100 // bytes: no codec of speech has fewer
	chunkHead   = 8
	riffHead    = 12
	formatSize  = 16
)

// Read reads the head of a file; false = it is no recording of this kind.
func Read(file io.ReaderAt, size int64) (Recording, bool) {
	var head [riffHead]byte
	if _, err := file.ReadAt(head[:], 0); err != nil || string(head[:4]) != "RIFF" || string(head[8:]) != "WAVE" {
		return Recording{}, false
	}
	var found Recording
	at := int64(riffHead)
	for range maxChunks {
		var chunk [chunkHead]byte
		if _, err := file.ReadAt(chunk[:], at); err != nil {
			return Recording{}, false
		}
		at += chunkHead
		length := int64(binary.LittleEndian.Uint32(chunk[4:]))
		switch string(chunk[:4]) {
		case "fmt ":
			if !found.format(file, at, length) {
				return Recording{}, false
			}
		case "data":
			found.At, found.Bytes = at, min(length, size-at)
			if length == 0 { // of a file that was written while nobody knew its length
				found.Bytes = size - at
			}
			return found, found.bytesPerSecond > 0
		}
		at += length + length&1
	}
	return Recording{}, false
}

func (r *Recording) format(file io.ReaderAt, at, length int64) bool {
	var raw [formatSize]byte
	if length < formatSize {
		return false
	}
	if _, err := file.ReadAt(raw[:], at); err != nil {
		return false
	}
	r.Format, r.Channels = int(binary.LittleEndian.Uint16(raw[:])), int(binary.LittleEndian.Uint16(raw[2:]))
	rate, perSecond := binary.LittleEndian.Uint32(raw[4:]), int64(binary.LittleEndian.Uint32(raw[8:]))
	r.Bits = int(binary.LittleEndian.Uint16(raw[14:]))
	if r.Channels < 1 || r.Channels > maxChannels || rate < minRate || rate > maxRate {
		return false
	}
	r.Rate, r.bytesPerSecond = int(rate), perSecond
	switch r.Format {
	case PCM, float, extensible: // what a second takes is known
		if r.Bits < 8 || r.Bits > 64 {
			return false
		}
		r.bytesPerSecond = int64(r.Rate) * int64(r.Channels) * int64((r.Bits+7)/8)
	}
	return r.bytesPerSecond >= minPerSec
}

// Millis is how long the recording is.
func (r Recording) Millis() int64 { return millis(max(r.Bytes, 0), r.bytesPerSecond) }

// millis is how long so many bytes last, rounded up.
func millis(bytes, perSecond int64) int64 {
	const perMilli = 1000
	whole, rest := bytes/perSecond, bytes%perSecond
	return whole*perMilli + (rest*perMilli+perSecond-1)/perSecond
}

// Head is the head of a file with mono samples of 16 bits behind it.
func Head(rate, bytes int) []byte {
	const width = 2
	head := append(make([]byte, 0, riffHead+chunkHead+formatSize+chunkHead), "RIFF"...)
	put := binary.LittleEndian
	head = put.AppendUint32(head, uint32(cap(head)-chunkHead+bytes)) //nolint:gosec // speech is short
	head = append(head, "WAVEfmt "...)
	head = put.AppendUint32(head, formatSize)
	head = put.AppendUint16(put.AppendUint16(head, PCM), 1)
	head = put.AppendUint32(put.AppendUint32(head, uint32(rate)), uint32(rate*width)) //nolint:gosec // a constant of callers
	head = put.AppendUint16(put.AppendUint16(head, width), 8*width)
	return put.AppendUint32(append(head, "data"...), uint32(bytes)) //nolint:gosec // as above
}
