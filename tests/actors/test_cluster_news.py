"""Ray is asked by one thread at a time, and nobody waits for it longer than was said."""

from __future__ import annotations

import threading
import time

import pytest

from actors.fleet.cluster_news import ClusterNews, News

WAIT = 10.0


class Ray:
    """Answers when it is let, and counts the questions and those that are open at one moment."""

    def __init__(self):
        self.asked, self.open, self.most, self.let = 0, 0, 0, threading.Semaphore(0)

    def __call__(self) -> News:
        self.asked, self.open = self.asked + 1, self.open + 1
        self.most, number = max(self.most, self.open), self.asked
        assert self.let.acquire(timeout=WAIT)
        self.open -= 1
        return News(frozenset({f"node {number}"}))


def newest_of(news: ClusterNews) -> News:
    deadline = time.monotonic() + WAIT
    while (found := news.newest()) is None:
        assert time.monotonic() < deadline
        time.sleep(0.001)
    return found


def test_one_question_at_a_time_and_each_answer_is_given_once():
    ray = Ray()
    news = ClusterNews(ray, every_seconds=0.0)
    for _ in range(100):
        assert news.newest() is None
    assert ray.asked == 1, "nobody asks again while it is open"
    for number in range(1, 6):
        ray.let.release()
        assert newest_of(news).alive == {f"node {number}"}
    assert ray.most == 1 and news.failed == 0
    ray.let.release()
    news.close(WAIT)


def test_an_answer_is_good_for_a_while():
    ray = Ray()
    news = ClusterNews(ray, every_seconds=0.3)
    ray.let.release(9)
    newest_of(news)
    told = time.monotonic()
    newest_of(news)
    assert ray.asked == 2 and time.monotonic() - told > 0.29


def test_fresh_is_the_answer_to_a_later_question_and_is_not_waited_for_without_end():
    ray = Ray()
    news = ClusterNews(ray, every_seconds=0.0)
    assert news.newest() is None
    began = time.monotonic()
    assert news.fresh(0.2) is None and time.monotonic() - began < 2.0, "Ray leaves the first question open"
    ray.let.release(2)
    assert news.fresh(WAIT).alive == {"node 2"} and ray.most == 1


@pytest.mark.parametrize("ask", ["newest", "fresh"])
def test_a_question_that_fails_is_counted_and_asked_again(ask, caplog):
    answers = [RuntimeError("the GCS is not there"), News(frozenset({"node"}))]

    def asked() -> News:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    news = ClusterNews(asked, every_seconds=0.0)
    if ask == "fresh":
        assert news.fresh(WAIT) is None and news.failed == 1
    assert newest_of(news).alive == {"node"} and news.failed == 1
    assert "Ray did not say" in caplog.text
