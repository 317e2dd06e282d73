package zstd

import (
	"io"

	"github.com/klauspost/compress/zstd"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/consumer/envelope"
)

var magic = []byte{0x28, 0xb5, 0x2f, 0xfd}

// MaxWindow is the largest window of a frame that is unpacked, in bytes: the 8 MiB that RFC 8878, 3.1.1.1.2, asks of every decoder. A
// frame with a larger one (of `zstd --long`, and of level 20 and above) fails for good, by name.
const MaxWindow = 8 << 20

// Body returns middleware that unpacks bodies up to most bytes each; 0 or less means envelope.DefaultUnpacked. What is true of
// envelope.Gzip is true of it: what fails, what is left as it is, and base64 on SQS. Each unpacking needs up to [MaxWindow] of memory
// beside the body.
func Body(most int) consumer.Middleware {
	return envelope.Compressed("zstd", magic, most, func(r io.Reader) (io.ReadCloser, error) {
		d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(MaxWindow), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	})
}
