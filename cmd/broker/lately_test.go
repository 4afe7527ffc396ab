package broker

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestLatelyHangs asks what does not answer for a while: nobody waits longer
// than he said, and there is one question at a time.
func TestLatelyHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		l := lately[int]{ask: func() int {
			asked++
			if asked == 2 {
				time.Sleep(time.Minute)
			}
			return asked
		}}
		if n, fresh := l.get(time.Second); n != 1 || !fresh {
			t.Fatalf("first: %d %t", n, fresh)
		}
		for range 3 {
			begun := time.Now()
			n, fresh := l.get(time.Second)
			if n != 1 || fresh || time.Since(begun) != time.Second {
				t.Fatalf("while it hangs: %d %t after %v", n, fresh, time.Since(begun))
			}
		}
		if n, fresh := l.get(time.Hour); n != 2 || !fresh {
			t.Fatalf("when it answers: %d %t", n, fresh)
		}
	})
}
